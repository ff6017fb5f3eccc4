//go:build linux && !stapsdt_noload

package stapsdt

// loads is whether this build has the loader.
const loads = true
