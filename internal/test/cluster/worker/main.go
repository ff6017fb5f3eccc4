// Command worker runs in the pods of packages cluster and kubernetes. It waits until its probe is
// traced, fires it as often as -events says, and ends. With -wait=false, it fires at once. With -crash, it fires
// at once into the recording that its environment asks for, and then takes memory until the kernel
// kills it, or ends with status 1; if the first life of its container has crashed so, it waits or,
// after two lives, fires forever. With -launch, it starts processes that fire the events of another
// probe whenever a tracer attaches. With -obey, which is for the stand-in of a cluster, it fires them
// when standard input says so. With -take, it takes memory first.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probeenv"
	"github.com/go-stapsdt/stapsdt/proberec"
)

func main() {
	events := flag.Int("events", 0, "the number of events")
	waits := flag.Bool("wait", true, "wait until the probe is traced")
	delay := flag.Duration("delay", 0, "how long to wait after that")
	crash := flag.String("crash", "", "how to end: memory, then wait in the next life, status, or twice")
	workers := flag.Int("launch", 0, "how many processes to start")
	serves := flag.Bool("serve", false, "fire the other probe, as one of them")
	obeys := flag.Bool("obey", false, "fire the other probe as standard input says")
	megabytes := flag.Int("take", 0, "how many MB to take")
	flag.Parse()
	take(*megabytes)
	switch {
	case *obeys:
		obey()
		return
	case *workers > 0:
		launch(*workers, *events)
		return
	case *serves:
		serve(*events)
	}
	provider := stapsdt.NewProvider("worker")
	life := stapsdt.NewProbe1[int](provider, "life__start", "id")
	stapsdt.NewProbe1[int](provider, "life__end", "id") // which never fires
	done := stapsdt.NewProbe2[int, string](provider, "done", "number", "text")
	if err := probeenv.Load(); err != nil {
		log.Fatal(err)
	}
	if *crash != "" {
		endBadly(*crash, func() {
			life.Fire(1)
			fire(done, *events)
		})
		for i := 0; ; i++ { // the recorder watches the probe, so a tracer cannot be awaited
			done.Fire(i, "work")
			time.Sleep(time.Millisecond)
		}
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

// endBadly records work, and ends without closing the recording. It returns in the third life of a container that ends
// twice.
func endBadly(how string, work func()) {
	r, err := proberec.FromEnvironment() // which Load has made
	if err != nil {
		log.Fatal(err)
	}
	if how == "memory" && r.Previous() != "" {
		time.Sleep(time.Hour)
	}
	if earlier, _ := filepath.Glob(r.Path() + "-*"); how == "twice" && len(earlier) >= 2 {
		return
	}
	work()
	if how != "memory" {
		os.Exit(1)
	}
	for {
		take(1)
	}
}
