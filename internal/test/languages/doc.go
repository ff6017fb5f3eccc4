// Package languages tests the bindings of the C library: for each language, a program
// in testdata fires its probes, passes wrong arguments, and ends in several ways.
//
// To measure what the calls cost:
//
//	go test ./languages -run - -bench . -benchtime 1x
package languages
