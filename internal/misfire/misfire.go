// Package misfire tells package probetest of fires with wrong arguments, which are no events
// and therefore do not reach observers.
package misfire

import "sync/atomic"

// Report is called with the error that Fire returns and with the *stapsdt.Probe, unless it is
// nil. There is one for the process.
var Report atomic.Pointer[func(probe any, err error)]
