// Command operator starts and ends operations as it is told on standard input, and prints "ok" when
// that is done:
//
//	requests N   N requests, each with two queries; the second of every fifth request fails
//	open N       N requests that stay open until close
//	close        ends them
//	hostile      a request whose texts try to control the terminal
//	late         a request that ends before its query does, and then the query
//	wide N       a request with N queries
//	storm N      N requests without queries, by two goroutines as fast as they can
//	reload       unloads the probes and loads them again
//	listen       lets others watch it without root
//
// The argument, if there is one, is a file to which it records its events.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
	"github.com/go-stapsdt/stapsdt/probesock"
	"github.com/go-stapsdt/stapsdt/span"
)

type (
	pathArgs  struct{ Path string }
	textArgs  struct{ Text string }
	statusArg struct{ Status int }
	none      struct{}
)

var (
	provider = stapsdt.NewProvider("operator")
	request  = span.New[pathArgs, statusArg](provider, "request")
	query    = span.New[textArgs, none](provider, "query")
	opened   []*span.Span[statusArg]
)

// hostile clears a terminal, writes a line of its own, and is not UTF-8.
const hostile = "/\x1b[2J\x1b[31mforged\r\n$ \u202e\xff\x07"

func main() {
	check(provider.Load())
	if len(os.Args) > 1 {
		recorder, err := proberec.Create(os.Args[1], 64<<20, provider)
		check(err)
		recorder.Start()
		defer recorder.Close()
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		var word string
		var n int
		fmt.Sscan(in.Text(), &word, &n)
		act(word, n)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func act(word string, n int) {
	switch word {
	case "requests":
		for i := range n {
			serve(i)
		}
	case "open":
		for i := range n {
			_, s := request.Start(context.Background(), pathArgs{fmt.Sprintf("/open/%d", i)})
			opened = append(opened, s)
		}
	case "close":
		for _, s := range opened {
			s.End(statusArg{200}, nil)
		}
		opened = nil
	case "hostile":
		_, s := request.Start(context.Background(), pathArgs{hostile})
		s.End(statusArg{200}, errors.New(hostile))
	case "late":
		ctx, r := request.Start(context.Background(), pathArgs{"/late"})
		_, q := query.Start(ctx, textArgs{"slow"})
		r.End(statusArg{200}, nil)
		time.Sleep(10 * time.Millisecond)
		q.End(none{}, nil)
	case "wide":
		ctx, r := request.Start(context.Background(), pathArgs{"/wide"})
		for range n {
			_, q := query.Start(ctx, textArgs{"quick"})
			q.End(none{}, nil)
		}
		r.End(statusArg{200}, nil)
	case "storm":
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for range n / 2 {
					_, s := request.Start(context.Background(), pathArgs{"/storm"})
					s.End(statusArg{200}, nil)
				}
			})
		}
		all.Wait()
	case "reload":
		provider.Unload()
		check(provider.Load())
	case "listen":
		_, err := probesock.Listen()
		check(err)
	}
}

// serve is a request that takes two milliseconds and the time of two queries.
func serve(i int) {
	ctx, r := request.Start(context.Background(), pathArgs{fmt.Sprintf("/%d", i%2)})
	time.Sleep(time.Millisecond)
	ask(ctx, "SELECT 1", nil)
	var err error
	if i%5 == 4 {
		err = errors.New("no such table")
	}
	ask(ctx, "SELECT 2", err)
	time.Sleep(time.Millisecond)
	status := 200
	if err != nil {
		status = 500
	}
	r.End(statusArg{status}, err)
}

func ask(ctx context.Context, text string, err error) {
	_, q := query.Start(ctx, textArgs{text})
	time.Sleep(time.Millisecond)
	q.End(none{}, err)
}
