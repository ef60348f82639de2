package main

func Example() {
	main()
	// Output:
	// todos: 2 lines
	// lib/notes.txt:3: TODO: say what this is
	// main.go:3: // TODO: read the flags
	// Two things are left to do.
}
