// Command worker is what pods run in scripts/kubernetes.sh. It waits until its probe is traced, fires it so
// many times, and ends. With -wait=false, it fires at once. With -record, it takes memory after that until the kernel kills it; if a recording
// of a process before it is there, it prints the recording's name and waits. With -launch, it starts processes
// that fire the events of another probe whenever a tracer attaches.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
)

const recordBytes = 4 << 20

func main() {
	events := flag.Int("events", 0, "the number of events")
	waits := flag.Bool("wait", true, "wait until the probe is traced")
	delay := flag.Duration("delay", 0, "how long to wait after that")
	path := flag.String("record", "", "the file of a recording")
	workers := flag.Int("launch", 0, "how many processes to start")
	serves := flag.Bool("serve", false, "fire the other probe, as one of them")
	flag.Parse()
	switch {
	case *workers > 0:
		launch(*workers, *events)
		return
	case *serves:
		serve(*events)
	}
	provider := stapsdt.NewProvider("worker")
	done := stapsdt.NewProbe2[int, string](provider, "done", "number", "text")
	if err := provider.Load(); err != nil {
		log.Fatal(err)
	}
	if *path != "" {
		record(*path, provider, func() { fire(done, *events) })
		return
	}
	for end := time.Now().Add(time.Minute); *waits && !done.Enabled(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			log.Fatal("nothing has traced the probe for a minute")
		}
	}
	time.Sleep(*delay)
	fire(done, *events)
}

func fire(done *stapsdt.Probe2[int, string], events int) {
	for i := range events {
		done.Fire(i, "work")
	}
}

// record fires into a recording, and takes memory until the process is killed. The next process of the
// container finds the recording.
func record(path string, provider *stapsdt.Provider, work func()) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		log.Fatal(err)
	}
	r, err := proberec.Create(path, recordBytes, provider)
	if err != nil {
		log.Fatal(err)
	}
	r.Start()
	if kept := r.Previous(); kept != "" {
		fmt.Println(kept)
		time.Sleep(time.Hour)
	}
	work()
	var memory [][]byte
	for {
		part := make([]byte, 1<<20)
		for i := range part {
			part[i] = 1
		}
		memory = append(memory, part)
		runtime.KeepAlive(memory)
	}
}
