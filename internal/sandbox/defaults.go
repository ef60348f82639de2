package sandbox

// systemFolders hold what programs need to run. /proc shows a confined process no more
// of others than what everybody may see of them.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/proc", "/sys",
	"/nix/store", "/nix/var/nix/profiles", "/gnu/store", "/run/current-system", "/snap",
	"/home/linuxbrew/.linuxbrew", "/run/systemd/resolve", "/var/lib/dpkg", "/var/lib/rpm",
	"/var/lib/ca-certificates", "/var/cache/fontconfig",
}
