// Package arguments compares every argument that is fired with what a BPF program
// sees at the site.
package arguments
