package tty

// StopGroup is what Suspend does with the process group.
var StopGroup = stopGroup
