// Command bench measures what services pay for being watched: scripts/servers.sh builds the programs and calls it.
//
// In each round it starts each server in each way, lets a client load it, and compares the events that were seen with
// the requests that the client counted.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
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
		table(s, results)
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

// table prints a server's figures: medians, and medians of the ratios to the first way in the same round.
func table(s server, results map[string][]figures) {
	fmt.Printf("| %s | %s/s | of nothing | quartiles | p50 | p99 | processor | of nothing | events seen |\n", s.name, s.unit)
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, w := range s.ways {
		own, first := results[s.name+w.name], results[s.name+s.ways[0].name]
		// at returns a quantile of a figure, and of its ratio to that of the first way.
		at := func(q float64, figure func(figures) float64) (value, percent float64) {
			var values, ratios []float64
			for round, f := range own {
				if base := first[round]; f.rate > 0 && base.rate > 0 {
					values, ratios = append(values, figure(f)), append(ratios, 100*figure(f)/figure(base))
				}
			}
			return quantile(values, q), quantile(ratios, q)
		}
		rate := func(f figures) float64 { return f.rate }
		perSecond, percent := at(0.5, rate)
		_, low := at(0.25, rate)
		_, high := at(0.75, rate)
		processor, more := at(0.5, func(f figures) float64 { return f.processor })
		p50, _ := at(0.5, func(f figures) float64 { return f.p50 })
		p99, _ := at(0.5, func(f figures) float64 { return f.p99 })
		seen, lost, events := 0, 0, ""
		for _, f := range own {
			seen, lost = seen+f.seen, lost+f.lost
		}
		if seen > 0 {
			events = thousands(float64(seen))
		}
		if lost > 0 {
			events += fmt.Sprintf(", %s lost", thousands(float64(lost)))
		}
		fmt.Printf("| %s | %s | %.1f %% | %.1f to %.1f | %s | %s | %s | %.1f %% | %s |\n",
			w.name, thousands(perSecond), percent, low, high, duration(p50), duration(p99), duration(processor), more, events)
	}
	fmt.Println()
}

// quantile is the median for 0.5, and between two values their mean, as they are apart.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	at := q * float64(len(values)-1)
	low, high := values[int(at)], values[min(int(at)+1, len(values)-1)]
	return low + (high-low)*(at-math.Floor(at))
}

// duration formats microseconds, of which 0 is not known.
func duration(us float64) string {
	switch {
	case us == 0:
		return ""
	case us >= 1000:
		return fmt.Sprintf("%.3g ms", us/1000)
	}
	return fmt.Sprintf("%.3g µs", us)
}

// thousands formats a number with a comma before each three digits.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
