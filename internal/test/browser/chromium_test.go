package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// tab is a page in a browser. It speaks the DevTools protocol over a pair of pipes: JSON
// messages, each of which ends in a NUL.
type tab struct {
	t       *testing.T
	data    string // the browser's directory
	session string
	in      *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan message
	console []string // errors and warnings, among them violations of the security policy
	dead    error
}

// message is an answer of the browser, or what it says by itself.
type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// request is a call of a method of the protocol.
type request struct {
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
	Session string `json:"sessionId,omitempty"`
}

// open starts a browser with an empty page of that size.
func open(t *testing.T, width, height int, flags ...string) *tab {
	chromium := testenv.NeedsTool(t, "chromium", "chromium")
	fromBrowser, out, err := os.Pipe()
	require.NoError(t, err)
	in, toBrowser, err := os.Pipe()
	require.NoError(t, err)
	data := t.TempDir()
	cmd := exec.Command(chromium, append(flags, "--headless", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars", "--user-data-dir="+data,
		fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")...)
	cmd.ExtraFiles = []*os.File{in, out} // descriptors 3 and 4
	require.NoError(t, cmd.Start())
	in.Close()
	out.Close()
	b := &tab{t: t, data: data, in: toBrowser, answers: map[int]chan message{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(fromBrowser)
	}()
	t.Cleanup(func() {
		_, _ = b.try("Browser.close", nil)
		toBrowser.Close()
		killer := time.AfterFunc(testenv.Patience, func() { _ = cmd.Process.Kill() })
		defer killer.Stop()
		_ = cmd.Wait()
		<-read
		fromBrowser.Close()
	})
	var created struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &created)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	return b
}

// read distributes what the browser says.
func (b *tab) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		var m message
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &m)
		}
		b.mu.Lock()
		if err != nil {
			b.dead = err
			for _, c := range b.answers {
				close(c)
			}
			b.answers = nil
			b.mu.Unlock()
			return
		}
		switch {
		case m.ID != 0 && b.answers[m.ID] != nil:
			b.answers[m.ID] <- m
			delete(b.answers, m.ID)
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled":
			b.console = append(b.console, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// try calls a method of the protocol.
func (b *tab) try(method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	if b.dead != nil {
		b.mu.Unlock()
		return nil, b.dead
	}
	b.last++
	answer := make(chan message, 1)
	b.answers[b.last] = answer
	text, err := json.Marshal(request{b.last, method, params, b.session})
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return nil, errors.New("the browser is gone")
		}
		if m.Error != nil {
			return nil, errors.New(m.Error.Message)
		}
		return m.Result, nil
	case <-time.After(testenv.Patience):
		return nil, errors.New("the browser does not answer")
	}
}

func (b *tab) call(method string, params, result any) {
	b.t.Helper()
	answer, err := b.try(method, params)
	require.NoError(b.t, err, method)
	if result != nil {
		require.NoError(b.t, json.Unmarshal(answer, result))
	}
}

// load goes to an address.
func (b *tab) load(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.wait(`document.readyState === "complete" && location.href !== "about:blank"`)
}

// eval evaluates JavaScript whose value, or that of its promise, can be JSON.
func (b *tab) eval(script string) any {
	b.t.Helper()
	var answer struct {
		Result    struct{ Value any }
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	require.Empty(b.t, string(answer.Exception), script)
	return answer.Result.Value
}

// wait waits until a condition in JavaScript is true.
func (b *tab) wait(condition string) {
	b.t.Helper()
	deadline := time.Now().Add(testenv.Patience)
	for b.eval("Boolean("+condition+")") != true {
		if time.Now().After(deadline) {
			require.Fail(b.t, "never true: "+condition, "%v", b.eval("document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// text returns the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return fmt.Sprint(b.eval("document.querySelector(" + quote(selector) + ").innerText"))
}

// visible reports whether an element can be seen.
func (b *tab) visible(selector string) bool {
	b.t.Helper()
	return b.eval("document.querySelector("+quote(selector)+").checkVisibility()") == true
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// click clicks the middle of an element with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait("document.querySelector(" + quote(selector) + ")")
	at, ok := b.eval(`(() => { const e = document.querySelector(` + quote(selector) + `); e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`).([]any)
	require.True(b.t, ok)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// press presses a key, such as "Enter", "Tab" or "/".
func (b *tab) press(key string) {
	b.t.Helper()
	text := ""
	switch {
	case key == "Enter":
		text = "\r"
	case len(key) == 1:
		text = key
	}
	codes := map[string]int{"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}
	down := map[string]any{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": codes[key]}
	if text == "" {
		down["type"] = "rawKeyDown"
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// write replaces the content of a field, as typing does.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.eval("document.querySelector(" + quote(selector) + ").select()")
	b.eval("document.querySelector(" + quote(selector) + ").focus()")
	if text == "" {
		b.eval(`document.execCommand("delete")`)
		return
	}
	b.call("Input.insertText", map[string]any{"text": text}, nil)
}

// theme selects "light" or "dark".
func (b *tab) theme(name string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": name}}}, nil)
}

// screenshot writes a picture of the page.
func (b *tab) screenshot(file string) {
	b.t.Helper()
	var answer struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &answer)
	picture, err := base64.StdEncoding.DecodeString(answer.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(file, picture, 0o644))
}

// complaints returns what the browser has reported: exceptions, failed requests, violations of
// the security policy.
func (b *tab) complaints() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.console, "\n")
}
