//go:build linux

package debugger

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAwaitAlone: a command is alone when its companion has ended.
func TestAwaitAlone(t *testing.T) {
	c := exec.Command("cat", "-", Companion, "token-of-the-test")
	in, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	alone := make(chan struct{})
	go func() {
		defer close(alone)
		AwaitAlone("token-of-the-test")
	}()
	select {
	case <-alone:
		t.Fatal("the companion is there")
	case <-time.After(3 * companionInterval):
	}
	in.Close()
	_ = c.Wait() // it fails, because there are no such files
	<-alone
}
