package site

// One nop is all there is, and every kernel attaches to it.
func choose() string { return "nop4" }
