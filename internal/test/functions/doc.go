// Package functions tests the function probes of Python, Perl, Ruby and PHP, and the scripts in
// examples/scripts: for each language, a program in testdata does on command what the scripts
// show.
//
// To measure what the probes cost:
//
//	go test ./functions -run - -bench .
package functions
