package main

import "golang.org/x/sys/windows"

// ignoreReaders does nothing: the end of a reader ("| more") is an error of Write.
func ignoreReaders() {}

// brokenPipes are the errors of writing to a pipe whose reader has ended.
var brokenPipes = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA}
