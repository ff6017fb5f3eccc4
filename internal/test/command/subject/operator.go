package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// hostile clears a terminal, writes a line of its own, and is not UTF-8.
const hostile = "/\x1b[2J\x1b[31mforged\r\n$ \u202e\xff\x07"

// taken is the memory of hog.
var taken [][]byte

// operator starts and ends operations:
//
//	requests N   N requests, each with two queries; the second of every fifth request fails
//	open N       N requests that stay open until close
//	close        ends them
//	hang N       N requests that never end, each with a query that fails
//	panic        a request that ends the program by a panic
//	hog          a request that takes memory until the program is killed
//	hostile      a request whose texts try to control the terminal
//	late         a request that ends before its query does, and then the query
//	wide N       a request with N queries
//	storm N      N requests without queries, by two goroutines as fast as they can
//	reload       unloads the probes and loads them again
//	listen       lets others watch it without root
func operator(file string) {
	provider := stapsdt.NewProvider("operator")
	request := span.NewOperation[pathArgs, statusArg](provider, "request")
	query := span.NewOperation[textArgs, none](provider, "query")
	check(provider.Load())
	if file != "" {
		recorder, err := proberec.Create(file, 64<<20, provider)
		check(err)
		recorder.Start()
		defer recorder.Close()
	}
	begin := func(path string) (context.Context, *span.Span[statusArg]) {
		return request.Start(context.Background(), pathArgs{path})
	}
	ask := func(ctx context.Context, text string, took time.Duration, err error) {
		_, q := query.Start(ctx, textArgs{text})
		time.Sleep(took)
		q.End(none{}, err)
	}
	var opened []*span.Span[statusArg]
	commands{
		"requests": func(o order) { // each takes two milliseconds and the time of two queries
			for i := range o.n {
				ctx, r := begin(fmt.Sprintf("/%d", i%2))
				time.Sleep(time.Millisecond)
				ask(ctx, "SELECT 1", time.Millisecond, nil)
				status, err := 200, error(nil)
				if i%5 == 4 {
					status, err = 500, errors.New("no such table")
				}
				ask(ctx, "SELECT 2", time.Millisecond, err)
				time.Sleep(time.Millisecond)
				r.End(statusArg{status}, err)
			}
		},
		"open": func(o order) {
			for i := range o.n {
				_, r := begin(fmt.Sprintf("/open/%d", i))
				opened = append(opened, r)
			}
		},
		"close": func(order) {
			for _, r := range opened {
				r.End(statusArg{200}, nil)
			}
			opened = nil
		},
		"hang": func(o order) {
			for i := range o.n {
				ctx, _ := begin(fmt.Sprintf("/hang/%d", i))
				ask(ctx, "SELECT 3", 0, errors.New("panic"))
			}
		},
		"panic": func(order) {
			go func() { // in main, a deferred Close would end the recording properly
				ctx, _ := begin("/panic")
				ask(ctx, "SELECT 4", 0, nil)
				panic("boom")
			}()
			select {}
		},
		"hog": func(order) {
			begin("/hog")
			for {
				taken = append(taken, bytes.Repeat([]byte{1}, 1<<20))
			}
		},
		"hostile": func(order) {
			_, r := begin(hostile)
			r.End(statusArg{200}, errors.New(hostile))
		},
		"late": func(order) {
			ctx, r := begin("/late")
			_, q := query.Start(ctx, textArgs{"slow"})
			r.End(statusArg{200}, nil)
			time.Sleep(10 * time.Millisecond)
			q.End(none{}, nil)
		},
		"wide": func(o order) {
			ctx, r := begin("/wide")
			for range o.n {
				ask(ctx, "quick", 0, nil)
			}
			r.End(statusArg{200}, nil)
		},
		"storm": func(o order) {
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					for range o.n / 2 {
						_, r := begin("/storm")
						r.End(statusArg{200}, nil)
					}
				})
			}
			all.Wait()
		},
		"reload": func(order) {
			provider.Unload()
			check(provider.Load())
		},
		"listen": func(order) {
			_, err := probesock.Listen()
			check(err)
		},
	}.loop()
}
