package spec

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/assert"
)

// TestSignature: names of a hostile file do not control a terminal.
func TestSignature(t *testing.T) {
	site := sdt.Site{Args: []sdt.Arg{
		{Name: "\x1b[7m", Type: &sdt.Type{Name: "a\x07\nb"}}, {Name: "status", Size: 4, Signed: true}, {Size: 8},
	}}
	assert.Equal(t, "\ufffd[7m a\ufffd\ufffdb, status int32, uint64", Signature(site))
}
