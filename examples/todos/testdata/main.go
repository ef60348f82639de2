package main

// TODO: read the flags
func main() {}
