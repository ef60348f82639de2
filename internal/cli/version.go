package cli

import (
	"cmp"
	"runtime/debug"
)

// version returns the version of the module and the revision that the program was built from, on one line.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "aycoder, of an unknown version"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	text := "aycoder " + cmp.Or(info.Main.Version, "(devel)")
	if rev := set["vcs.revision"]; rev != "" {
		text += ", revision " + rev
		if set["vcs.modified"] == "true" {
			text += " with changes"
		}
	}
	return text + ", " + info.GoVersion
}
