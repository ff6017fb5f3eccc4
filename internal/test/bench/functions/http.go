//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// shop is a server with three functions that each request runs through, and one for some requests.
type shop struct{ items map[string]item }

type item struct {
	Name  string
	Price int
	Tags  []string
}

func serve() {
	s := shop{items: map[string]item{}}
	for i := range 100 {
		name := strconv.Itoa(i)
		s.items[name] = item{"item " + name, 100 * i, []string{"new", "small"}}
	}
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready", l.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(l, http.HandlerFunc(s.handle)))
}

//go:noinline
func (s *shop) handle(w http.ResponseWriter, r *http.Request) {
	found, ok := s.find(r.URL.Query().Get("id"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	text, err := render(found)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

//go:noinline
func (s *shop) find(id string) (item, bool) {
	found, ok := s.items[id]
	if found.Price == 0 {
		found.Price = s.appraise(id)
	}
	return found, ok
}

// appraise is called for one item in a hundred.
//
//go:noinline
func (s *shop) appraise(id string) int {
	price, _ := strconv.Atoi(id + "00")
	return price
}

//go:noinline
func render(i item) ([]byte, error) { return json.Marshal(i) }

// connections keep the server and its machine busy.
const connections = 32

// load sends requests for some time, and waits for the last answers.
func load(port string, duration time.Duration) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	var requests, errors atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for c := range connections {
		all.Go(func() {
			for i := c; time.Since(start) < duration; i++ {
				requests.Add(1)
				if err := request(client, fmt.Sprintf("http://localhost:%s/item?id=%d", port, i%100)); err != nil {
					errors.Add(1)
					log.Print(err)
				}
			}
		})
	}
	all.Wait()
	fmt.Println("answered", requests.Load(), errors.Load(), time.Since(start).Nanoseconds())
}

func request(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var i item
	if err := json.NewDecoder(answer.Body).Decode(&i); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", answer.Status)
	}
	return err
}
