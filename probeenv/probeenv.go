// Package probeenv loads all providers of a program, and obeys two environment variables, which
// determine how the program's probes can be watched:
//
//	func main() {
//		if err := probeenv.Load(); err != nil {
//			log.Print(err) // some probes are unavailable; the program continues
//		}
//		...
//	}
//
// With STAPSDT_RECORD=FILE or FILE,SIZE, the last events of all providers are kept in a file, which
// survives the program (package proberec). With STAPSDT_SOCKET=1, processes of the same user can
// watch the probes without root (package probesock). Programs that use the C library obey the same
// variables. Without them, Load does what [stapsdt.LoadAll] does, which obeys STAPSDT_TRACER: see
// [stapsdt.Provider.Load].
//
//	$ STAPSDT_SOCKET=1 STAPSDT_RECORD=/dev/shm/myapp-%p.rec,16M ./myapp
//
// A program takes precedence over its environment: proberec.Create and probesock.Listen work before
// and after Load, and replace the recording and the socket that the variables request. To show the
// recording that the environment requests on the page of package debugprobe, pass the recorder that
// [proberec.FromEnvironment] returns to debugprobe.Mount: see the example (Page).
//
// Load is a call, and not an effect of an import, because providers are package variables: when a
// package is initialized, the variables of the packages that import it do not exist yet.
package probeenv

import (
	"errors"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"
)

// Load loads all providers as [stapsdt.LoadAll] does, and obeys STAPSDT_RECORD and STAPSDT_SOCKET:
// see [proberec.FromEnvironment] and [probesock.FromEnvironment]. It does as much as it can, and
// returns the joined errors of the rest, after which the program can continue. Another call retries
// the parts that have failed, and loads the providers that were defined since. Load may be called
// from any goroutine.
func Load() error {
	_, recordErr := proberec.FromEnvironment()
	_, listenErr := probesock.FromEnvironment()
	return errors.Join(recordErr, listenErr, stapsdt.LoadAll())
}
