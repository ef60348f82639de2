package shell

import (
	"strings"
	"sync"
)

// tables are those of programs. They are made when a command is looked at first, since most of the start of a program
// would be for them.
var tables = sync.OnceValue(func() programTables { return programTables{rows(), gitRows(), gitCommands(), others()} })

type programTables struct{ rows, gitRows, gitCommands, others map[string]program }

// lookup finds a program, or a program and its subcommand. Only what is in rows may run
// unasked.
func lookup(name string) (p program, reads bool, ok bool) {
	if p, ok := tables().rows[name]; ok {
		return p, true, true
	}
	for _, t := range []map[string]program{tables().others, tables().gitCommands} {
		if p, ok := t[name]; ok {
			return p, false, true
		}
	}
	for i := range alike {
		if alike[i].names[name] {
			return alike[i].program, false, true
		}
	}
	return program{}, false, false
}

// canonical is a name without the version behind it: python3.12 is python.
func canonical(name string) string {
	short := strings.TrimRight(name, "0123456789.")
	if short == name {
		return name
	}
	_, _, whole := lookup(name)
	if p, _, ok := lookup(short); !whole && ok && (p.handler == "language" || short == "pip") {
		return short
	}
	return name
}
