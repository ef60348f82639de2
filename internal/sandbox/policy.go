package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// view is what a command gets.
type view struct {
	Policy
	temp     string // "" if there is none
	readOnly bool   // see [Call]
	report   *Report
	filter   []byte // for system calls, where the mechanism has one

	proxied bool               // see Proxy of [Call]
	serve   func(net.Listener) // that function
	roots   string             // the file with the certificates to trust
}

// proxyAddress is what commands see as the proxy. Nobody listens there: see bridge.
func proxyAddress() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 3128)
}

// onlyReading is the policy of commands that change nothing. temp is the directory of the
// other commands' temporary files.
func (p Policy) onlyReading(temp string) Policy {
	p.Read = slices.Concat(p.Read, p.Write, p.Fetch)
	if temp != "" {
		p.Read = append(p.Read, temp)
	}
	p.Write, p.Fetch, p.Protect = nil, nil, nil
	p.Network, p.Sockets, p.Debug = false, false, false
	return p
}

// withTemp is the view for one command that only reads.
func (v *view) withTemp(dir string) *view {
	c := *v
	c.temp = dir
	return &c
}

// withProxy is the view for one command whose connections go to a proxy. The file with the
// certificates is beside the directory for temporary files, where commands may not write. Its
// name is made of its content, so it never changes.
func (v *view) withProxy(call Call) (*view, error) {
	c := *v
	c.serve = call.Proxy
	if len(call.Roots) == 0 {
		return &c, nil
	}
	hash := sha256.Sum256(call.Roots)
	c.roots = filepath.Join(filepath.Dir(v.temp), hex.EncodeToString(hash[:8])+".pem")
	c.Read = append(slices.Clip(v.Read), c.roots)
	if _, err := os.Stat(c.roots); err == nil {
		return &c, nil
	}
	f, err := os.CreateTemp(filepath.Dir(v.temp), "roots-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(call.Roots)
	err = errors.Join(err, f.Chmod(0o644), f.Close(), os.Rename(f.Name(), c.roots))
	return &c, err
}

// writes are the roots that may be changed, reads those that may only be looked at.
func (v *view) writes() []string {
	out := slices.Clone(v.Write)
	if v.temp != "" {
		out = append(out, v.temp)
	}
	if v.Network || v.proxied {
		out = append(out, v.Fetch...)
	}
	return out
}

// Downloads are left to the network where there is one: a command could put something else
// there.
func (v *view) reads() []string {
	if v.Network || v.proxied {
		return v.Read
	}
	return append(slices.Clone(v.Read), v.Fetch...)
}

// env are the variables that a command gets.
func (v *view) env() []string {
	if v.temp == "" {
		return nil
	}
	out := []string{"TMPDIR=" + v.temp, "TMP=" + v.temp, "TEMP=" + v.temp}
	for _, name := range v.Private {
		out = append(out, name+"="+filepath.Join(v.temp, strings.ToLower(name)))
	}
	if v.proxied {
		for _, name := range proxyVariables {
			out = append(out, name+"=http://"+proxyAddress().String(), strings.ToUpper(name)+"=http://"+proxyAddress().String())
		}
		out = append(out, "no_proxy=", "NO_PROXY=", "NODE_USE_ENV_PROXY=1")
	}
	if v.roots != "" {
		for _, name := range rootVariables {
			out = append(out, name+"="+v.roots)
		}
	}
	return out
}

// proxyVariables are the variables that name a proxy, which programs read in lower or upper
// case. rootVariables name a file with certificates to trust.
var (
	proxyVariables = []string{"http_proxy", "https_proxy", "all_proxy"}
	rootVariables  = []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
		"GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT",
	}
)

// readable and writable say what a command may do with a path that is not a link.
func (v *view) readable(path string) bool {
	return v.writable(path) || (v.everything || covers(v.reads(), path)) && !covers(v.Hide, path)
}

func (v *view) writable(path string) bool {
	return covers(v.writes(), path) && !covers(v.Protect, path)
}

// within reports whether a path is a directory or in it; both are clean.
func within(path, directory string) bool {
	rest, ok := strings.CutPrefix(path, directory)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]) || os.IsPathSeparator(directory[len(directory)-1]))
}

func covers(directories []string, path string) bool {
	return slices.ContainsFunc(directories, func(f string) bool { return within(path, f) })
}

// resolved returns the policy with its paths as they are without links. Paths below a writable
// directory are left out: they add nothing, and a command could put a link there that would
// open what it leads to.
func (p Policy) resolved() Policy {
	given := clean(slices.Concat(p.Read, p.Write, p.Fetch))
	p.Write = roots(p.Write, nil)
	p.Fetch = roots(p.Fetch, p.Write)
	p.Read = roots(p.Read, slices.Concat(p.Write, p.Fetch))
	p.Hide, p.Protect = clean(p.Hide), protected(p.Protect)
	for i, path := range p.Hide { // a rule for the directory that a link leads to would show it
		p.Hide[i] = withoutLinks(path)
	}
	p.around = nil
	for _, path := range p.Protect {
		for dir := filepath.Dir(path); covers(p.Write, dir) && !slices.Contains(p.Write, dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(dir); err == nil && !slices.Contains(p.around, dir) {
				p.around = append(p.around, dir)
			}
		}
	}
	p.Private = slices.Clone(p.Private)
	p.links = map[string]string{}
	for _, path := range given {
		real, err := filepath.EvalSymlinks(path)
		if all := slices.Concat(p.Read, p.Write, p.Fetch); err == nil && real != path && !covers(all, path) {
			p.links[path] = real
		}
	}
	return p
}

// roots resolves paths, and leaves out those that are missing, in another, or reached
// through one of the others.
func roots(paths, others []string) []string {
	paths = clean(paths)
	slices.Sort(paths) // what lies in a directory comes after it
	var out []string
	for _, p := range paths {
		if over := slices.Concat(others, out); covers(over, p) || through(p, over) {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil && !covers(out, real) && !covers(others, real) {
			out = slices.DeleteFunc(out, func(p string) bool { return within(p, real) })
			out = append(out, real)
		}
	}
	return out
}

// through reports whether a directory above a path is in one of the roots.
func through(path string, roots []string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && covers(roots, real) {
			return true
		}
	}
	return false
}

// clean returns those of the paths that are absolute, as clean paths.
func clean(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if filepath.IsAbs(p) {
			out = append(out, filepath.Clean(p))
		}
	}
	return out
}

// withoutLinks returns a path without links, or as it is if there is nothing.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// protected resolves the directories of paths which need not exist. A last element that is
// a link stays one: it is the name that must not be changed.
func protected(paths []string) []string {
	paths = clean(paths)
	for i, p := range paths {
		paths[i] = filepath.Join(withoutLinks(filepath.Dir(p)), filepath.Base(p))
	}
	return paths
}
