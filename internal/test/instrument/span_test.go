//go:build linux && (amd64 || arm64)

package instrument

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/span"

	"github.com/stretchr/testify/require"
)

type (
	stepStart struct{ Worker, Depth int32 }
	stepEnd   struct {
		Result string
		Odd    bool
	}
)

// pairing matches ends to their starts by arg0, and to their parents, as OBI does. It
// compares the time that the span says it took with the tracer's clock.
const pairing = `
usdt:FILE:spans:step__start
{
	@began[arg0] = nsecs;
	printf("start %llu %llu %d %d\n", arg0, arg1, arg2, arg3);
}

usdt:FILE:spans:step__end
/@began[arg0]/
{
	printf("end %llu %llu %d %s %s %d\n", arg0, arg1, arg2 > 1000000 && arg2 <= nsecs - @began[arg0], str(arg3), str(arg4), arg5);
	delete(@began[arg0]);
}

END
{
	print(@began);
}`

// TestPairing: bpftrace pairs the starts and ends of spans whose goroutines migrate.
func TestPairing(t *testing.T) {
	p := stapsdt.NewProvider("spans", stapsdt.WithDir(t.TempDir()))
	step := span.New[stepStart, stepEnd](p, "step")
	require.NoError(t, p.Load())
	defer func() { require.NoError(t, p.Close()) }()
	_, untraced := step.Start(t.Context(), stepStart{})
	tr := tracetest.Bpftrace(t, strings.ReplaceAll(pairing, "FILE", p.Path()), "-p", strconv.Itoa(os.Getpid()))
	untraced.End(stepEnd{}, nil)

	const workers, depth = 8, 3
	var mu sync.Mutex
	var want []string
	var run func(ctx context.Context, worker, level int)
	run = func(ctx context.Context, worker, level int) {
		if level == depth {
			return
		}
		parent := span.ID(ctx)
		ctx, s := step.Start(ctx, stepStart{int32(worker), int32(level)})
		time.Sleep(2 * time.Millisecond)
		run(ctx, worker, level+1)
		var err error
		text := ""
		if level == 1 {
			err, text = errors.New("failed"), "failed"
		}
		ended := make(chan bool)
		go func() { // not the goroutine that started it
			s.End(stepEnd{fmt.Sprint("r", worker), worker%2 == 1}, err)
			close(ended)
		}()
		<-ended
		mu.Lock()
		defer mu.Unlock()
		want = append(want, fmt.Sprintf("start %d %d %d %d", s.ID(), parent, worker, level),
			fmt.Sprintf("end %d %d 1 %s r%d %d", s.ID(), parent, text, worker, worker%2))
	}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { run(context.Background(), i, 0) })
	}
	all.Wait()
	tr.WaitLines(len(want), testenv.Patience)
	out := tr.Stop()
	got := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	require.ElementsMatch(t, want, got)
}
