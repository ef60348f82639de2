//go:build !unix

package postgres

import "os"

func stopProcess(*os.Process) bool { return false }

func continueProcess(*os.Process) {}
