//go:build linux

package symbol

import "github.com/ianlancetaylor/demangle"

// demangled returns the name of a function in C++ or Rust as its source has it, and other names
// unchanged. It cuts a name off after 8 KB, because a name can refer to its own parts: 240 bytes
// can stand for 285 MB.
func demangled(name string) string {
	const power = 13
	return demangle.Filter(name, demangle.MaxLength(power))
}
