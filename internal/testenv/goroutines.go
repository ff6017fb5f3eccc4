package testenv

import (
	"os"
	"runtime"
	"strings"
)

// module is the beginning of the names of all functions of this repository.
const module = "github.com/go-stapsdt/stapsdt"

// Goroutines returns the number of goroutines that the library has started: those whose go statement, or call of
// sync.WaitGroup.Go, is in a file of this repository that is no test. It does not count the goroutines of tests, of the
// runtime and of other packages, which begin and end at any time.
func Goroutines() (n int) {
	for function, file := range creators() {
		if strings.HasPrefix(function, module) && !strings.HasPrefix(function, module+"/internal/eventtest.") && !strings.Contains(file, "_test.go:") {
			n++
		}
	}
	return n
}

// Descriptors returns the number of descriptors of this process, or 0 where there is no /proc.
func Descriptors() int { return Entries("/proc/self/fd") }

// Entries returns the number of files in a directory, or 0 if there is none.
func Entries(dir string) int {
	list, _ := os.ReadDir(dir)
	return len(list)
}

// GoroutinesOf returns the number of goroutines that functions of a package of the standard library have started.
func GoroutinesOf(pkg string) (n int) {
	for function := range creators() {
		if strings.HasPrefix(function, pkg+".") {
			n++
		}
	}
	return n
}

// creators yields, for each goroutine, the function that started it and the line of its file. For a goroutine that
// sync.WaitGroup.Go has started, that is the function that runs in it.
func creators() func(yield func(function, file string) bool) {
	stacks := make([]byte, 1<<20)
	length := runtime.Stack(stacks, true)
	for length == len(stacks) {
		stacks = make([]byte, 2*len(stacks))
		length = runtime.Stack(stacks, true)
	}
	return func(yield func(function, file string) bool) {
		for stack := range strings.SplitSeq(string(stacks[:length]), "\n\n") {
			lines := strings.Split(strings.TrimSpace(stack), "\n") // a heading, and then functions, each before its file
			at := len(lines) - 2
			for at > 0 && strings.Contains(lines[at], "sync.(*WaitGroup).Go") {
				at -= 2
			}
			if at > 0 && !yield(strings.TrimPrefix(lines[at], "created by "), lines[at+1]) {
				return
			}
		}
	}
}
