package sandbox

// Seatbelt returns a box whose commands are confined by sandbox-exec(1). It is written
// after the documentation; nobody has tried it yet.
func Seatbelt(p Policy) *Box { return newBox(seatbelt{}, p) }
