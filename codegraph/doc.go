// Package codegraph knows which files of a workspace depend on which, and on which of their declarations.
//
// A [Graph] reads the files that git would list, finds what each imports, declares and uses (package
// source), and resolves this against the other files by the rules of each language: packages of Go,
// modules of Python and TypeScript with their re-exports, crates of Rust, packages of Java, includes of C. It
// runs no compiler and no build. [Graph.Refresh] brings it up to date by reading only what has changed; the
// result is the same as that of a new graph. A [Snapshot] is what is known at one moment.
//
//	g, err := codegraph.New(ws)
//	now, err := g.Refresh(ctx)
//	fmt.Println(now.Dependents("store/store.go"))
//	err = os.WriteFile("graph.svg", []byte(now.Draw(".").SVG()), 0o644)
package codegraph
