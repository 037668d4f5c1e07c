//go:build !unix

package redistest

import "os"

// Redis itself doesn't run here, so Start has skipped the test before anything can get to this point.
const noSignals = "redistest: Pause and Resume need SIGSTOP, which this system does not have"

// CanPause tells whether Pause and Resume work on this system.
const CanPause = false

func sendStop(*os.Process) error  { panic(noSignals) }
func sendCont(*os.Process) error  { panic(noSignals) }
func isStopped(int) (bool, error) { panic(noSignals) }
