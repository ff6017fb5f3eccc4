//go:build linux

// Command subject is the programs whose events ../live_test.go watches. They are no test binaries, in which recordings have another
// clock.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/probesock"
)

func main() {
	log.SetFlags(0)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "pace":
		pace()
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) > 2 && os.Args[1] == "peak":
		peak(os.Args[2:])
	default:
		log.Fatal("usage: subject pace|serve|peak COMMAND...")
	}
}

// peak runs a command, and prints the memory that it has had at most, in KiB. A test cannot ask for it itself: the kernel counts what
// the parent has when it starts a program.
func peak(words []string) {
	cmd := exec.Command(words[0], words[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		log.Fatalf("%v: %s", err, out)
	}
	fmt.Println(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
}

// The probes of both programs.
var (
	live  = stapsdt.NewProvider("live")
	two   = stapsdt.NewProbe2[int64, int32](live, "two", "id", "status")
	start = stapsdt.NewProbe2[int64, string](live, "command__start", "id", "command")
	end   = stapsdt.NewProbe2[int64, time.Duration](live, "command__end", "id", "elapsed")
)

// listen loads the probes and listens.
func listen() {
	if err := live.Load(); err != nil {
		log.Fatal(err)
	}
	if _, err := probesock.Listen(); err != nil {
		log.Fatal(err)
	}
}

// pace is a program that fires from several threads, each a number of events per millisecond, or as fast as it can if that is
// 0, until there are a number of all: "fire THREADS RATE ALL". It first waits for a watcher.
func pace() {
	listen()
	fmt.Println("ready")
	tracetest.EachLine(func(line string) {
		var threads, rate, all int
		if _, err := fmt.Sscanf(line, "fire %d %d %d", &threads, &rate, &all); err != nil {
			log.Fatal(err)
		}
		for !two.Enabled() {
			time.Sleep(100 * time.Microsecond)
		}
		began := time.Now()
		var group sync.WaitGroup
		for range threads {
			group.Go(func() { firePaced(rate, all/threads) })
		}
		group.Wait()
		fmt.Println("fired", time.Since(began).Nanoseconds())
	})
}

// firePaced fires n events, rate of them in each millisecond.
func firePaced(rate, n int) {
	began := time.Now()
	for i := range n {
		two.Fire(int64(i), int32(i&1023))
		if rate != 0 && (i+1)%rate == 0 {
			time.Sleep(time.Until(began.Add(time.Duration((i+1)/rate) * time.Millisecond)))
		}
	}
}

// serve is a server with the part of Redis's protocol that redis-benchmark needs for SET. It fires at the start and at the end of each
// command.
func serve() {
	listen()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready", l.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go answer(c)
	}
}

// commands is the number of commands so far.
var commands atomic.Int64

func answer(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		began := time.Now()
		id := commands.Add(1)
		start.Fire(id, words[0])
		if words[0] == "SET" {
			out.WriteString("+OK\r\n")
		} else { // such as CONFIG
			out.WriteString("-ERR unknown command\r\n")
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		end.Fire(id, time.Since(began))
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	n, err := readNumber(in, '*')
	if err != nil || n < 1 || n > 8 {
		return nil, fmt.Errorf("%d words: %w", n, err)
	}
	for range n {
		size, err := readNumber(in, '$')
		if err != nil || size < 0 || size > 1<<20 {
			return nil, fmt.Errorf("%d bytes: %w", size, err)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		words = append(words, string(b[:size]))
	}
	return words, nil
}

func readNumber(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil || line[0] != kind {
		return 0, fmt.Errorf("%q: %w", line, err)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
