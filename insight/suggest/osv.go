package suggest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// An advisory is what is used of an entry in the OSV format, https://ossf.github.io/osv-schema/.
type advisory struct {
	ID        string   `json:"id"`
	Aliases   []string `json:"aliases"`
	Withdrawn string   `json:"withdrawn"`
	Summary   string   `json:"summary"`
	Details   string   `json:"details"`
	Affected  []struct {
		Package  struct{ Ecosystem, Name string }
		Versions []string
		Ranges   []struct {
			Type   string
			Events []struct {
				Introduced   string
				Fixed        string
				LastAffected string `json:"last_affected"`
				Limit        string
			}
		}
	} `json:"affected"`
}

const maxAdvisory = 8 << 20 // bytes of a file

// advisories calls a function for each advisory in the files *.json of a source.
func advisories(ctx context.Context, source fs.FS, each func(*advisory)) error {
	return fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if path.Ext(name) != ".json" || !d.Type().IsRegular() {
			return nil
		}
		f, err := source.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxAdvisory+1))
		if err != nil {
			return err
		}
		var a advisory
		if err := json.Unmarshal(data, &a); err != nil || len(data) > maxAdvisory || a.ID == "" {
			return fmt.Errorf("%s is not an advisory in the OSV format", name)
		}
		if a.Withdrawn == "" {
			each(&a)
		}
		return nil
	})
}

// affects reports whether a package is affected, and in which version this is fixed, as far as the advisory says. A version
// that cannot be compared is not affected: nothing is claimed about it.
func (a *advisory) affects(p *Package) (fixed string, yes bool) {
	for _, x := range a.Affected {
		ecosystem, _, _ := strings.Cut(x.Package.Ecosystem, ":")
		if ecosystem != p.Ecosystem || canonical(ecosystem, x.Package.Name) != canonical(p.Ecosystem, p.Name) {
			continue
		}
		if slices.Contains(x.Versions, p.Version) || slices.Contains(x.Versions, strings.TrimPrefix(p.Version, "v")) {
			yes = true
		}
		for _, r := range x.Ranges {
			if r.Type != "SEMVER" && r.Type != "ECOSYSTEM" {
				continue
			}
			type event struct {
				version string
				in      bool
				after   bool // it holds for what comes after the version
			}
			var events []event
			for _, e := range r.Events {
				switch {
				case e.Introduced != "":
					events = append(events, event{e.Introduced, true, false})
				case e.Fixed != "":
					events = append(events, event{e.Fixed, false, false})
				case e.LastAffected != "":
					events = append(events, event{e.LastAffected, false, true})
				}
			}
			known := true
			slices.SortStableFunc(events, func(a, b event) int {
				order, ok := compareEvent(a.version, b.version)
				known = known && ok
				return order
			})
			in := false
			for _, e := range events {
				order, ok := compareEvent(p.Version, e.version)
				if known = known && ok; order > 0 || order == 0 && !e.after {
					in = e.in
				}
			}
			if !in || !known {
				continue
			}
			yes = true
			for _, e := range r.Events {
				if order, _ := compare(e.Fixed, p.Version); e.Fixed != "" && order > 0 {
					if less, _ := compare(e.Fixed, fixed); fixed == "" || less < 0 {
						fixed = e.Fixed
					}
				}
			}
		}
	}
	return fixed, yes
}

var separators = late.Regexp(`[-_.]+`)

// canonical returns the name of a package as it is compared: PyPI's names by PEP 503.
func canonical(ecosystem, name string) string {
	if ecosystem == "PyPI" {
		return strings.ToLower(separators().ReplaceAllString(name, "-"))
	}
	return name
}

// ofVersion matches versions of semver.org 2.0.0, with a "v" or without, and the plain ones of PEP 440.
var ofVersion = regexp.MustCompile(`^v?(\d{1,18}(?:\.\d{1,18})*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]*)?$`)

// compare compares two versions, or returns false if it cannot.
func compare(a, b string) (int, bool) {
	x, y := ofVersion.FindStringSubmatch(a), ofVersion.FindStringSubmatch(b)
	if x == nil || y == nil {
		return 0, false
	}
	first, second := strings.Split(x[1], "."), strings.Split(y[1], ".")
	for i := range max(len(first), len(second)) {
		if order := cmp.Compare(number(first, i), number(second, i)); order != 0 {
			return order, true
		}
	}
	switch {
	case x[2] == y[2]:
		return 0, true
	case x[2] == "":
		return 1, true
	case y[2] == "":
		return -1, true
	}
	first, second = strings.Split(x[2], "."), strings.Split(y[2], ".")
	for i := range min(len(first), len(second)) {
		n, err1 := strconv.ParseUint(first[i], 10, 64)
		m, err2 := strconv.ParseUint(second[i], 10, 64)
		order := 0
		switch {
		case err1 == nil && err2 == nil:
			order = cmp.Compare(n, m)
		case err1 == nil:
			order = -1
		case err2 == nil:
			order = 1
		default:
			order = cmp.Compare(first[i], second[i])
		}
		if order != 0 {
			return order, true
		}
	}
	return cmp.Compare(len(first), len(second)), true
}

// compareEvent is compare for a version of an event. "0" is before all others, also before those of Go that have a time instead, such
// as v0.0.0-20200220183623-bac4c82f6975.
func compareEvent(a, b string) (int, bool) {
	switch {
	case a == b:
		return 0, true
	case a == "0":
		return -1, true
	case b == "0":
		return 1, true
	}
	return compare(a, b)
}

// number returns a part of a version, or 0 where it has none.
func number(parts []string, i int) uint64 {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.ParseUint(parts[i], 10, 64)
	return n
}
