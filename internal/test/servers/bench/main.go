// Command bench measures what services pay for being watched: scripts/servers.sh builds the programs and calls it.
//
// In each round it starts each server in each way, lets a client load it, and compares the events that were seen with
// the requests that the client counted.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"time"
)

var (
	work     = flag.String("work", "", "the directory with the programs, which is on tmpfs")
	postgres = flag.String("postgres", "", "how to connect to PostgreSQL")
	rounds   = flag.Int("rounds", 12, "rounds")
	seconds  = flag.Int("seconds", 2, "seconds that each server is loaded in each round")
	only     = flag.String("only", "", "a regular expression that selects servers by their names")
	summary  = flag.String("summary", "", "a file for the table of docs/cost.md")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	check(os.Setenv("PATH", *work+":"+os.Getenv("PATH")))
	check(os.Setenv("HOME", *work))
	list := slices.DeleteFunc(servers(), func(s server) bool { return !regexp.MustCompile(*only).MatchString(s.name) })
	results, start, missed := map[string][]figures{}, time.Now(), 0
	for round := range *rounds {
		for _, s := range list {
			for i := range s.ways {
				w := s.ways[(i+round)%len(s.ways)] // each is the first in its turn
				f, err := measure(s, w)
				if err != nil {
					log.Printf("round %d: %s, %s: %v", round+1, s.name, w.name, err)
					missed++
				}
				results[s.name+w.name] = append(results[s.name+w.name], f)
			}
		}
		log.Printf("round %d of %d, after %v", round+1, *rounds, time.Since(start).Round(time.Second))
	}
	fmt.Printf("%d rounds, %d seconds each.\n\n", *rounds, *seconds)
	for _, s := range list {
		fmt.Print(s.table(results))
	}
	if *summary != "" {
		check(os.WriteFile(*summary, []byte(summarize(list, results)), 0o644))
	}
	if missed > 0 {
		log.Printf("%d measurements failed", missed)
		os.Exit(1)
	}
}

// figures are what was measured once. Latencies are in microseconds, and so is the server's processor time per request.
type figures struct {
	load
	processor float64
	seen      int // events
	lost      int // events that consumers know that they have lost
}
