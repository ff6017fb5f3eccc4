//go:build linux

package inpod

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// TestMain lets this program play the commands that run alone.
func TestMain(m *testing.M) {
	switch os.Getenv("STAPSDT_TEST_INPOD") {
	case "greedy":
		greedy()
		return
	case "wait":
		waitBesideAnother()
		return
	case "end":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := Wait(ctx, &console.Console{Err: os.Stderr}, Allowance{}, time.Hour); err != nil {
			panic(err)
		}
		return
	case "other":
		time.Sleep(otherTime)
		Use() // in the middle of the time that is waited
		return
	}
	os.Exit(m.Run())
}

// play returns this program as a command.
func play(as string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "STAPSDT_TEST_INPOD="+as)
	return c
}
