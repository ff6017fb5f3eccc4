package text

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

func TestTypeName(t *testing.T) {
	char := &sdt.Type{Kind: sdt.KindChar, Name: "char", Size: 1}
	for want, arg := range map[string]sdt.Arg{
		"int32":         {Size: 4, Signed: true},
		"uint64":        {Size: 8},
		"float64":       {Size: 8, Signed: true, Float: true},
		"unknown":       {},
		"string":        {Size: 8, Type: &sdt.Type{Kind: sdt.KindPointer, Elem: char}},
		"time.Duration": {Size: 8, Type: &sdt.Type{Name: "time.Duration", Kind: sdt.KindInt, Size: 8}},
	} {
		assert.Equal(t, want, TypeName(arg), arg)
	}
}
