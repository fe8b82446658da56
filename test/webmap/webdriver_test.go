package webmap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requiredEnv makes a missing browser a failure.
const requiredEnv = "BROWSER_REQUIRED"

// patience is how long a page may take for what a test waits for.
const patience = 3 * time.Minute

// browser is a window, as WebDriver knows it.
type browser struct {
	t       *testing.T
	session string // address of the session
}

// driver starts chromedriver, and ends it with the test. It returns its address.
func driver(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromedriver")
	if err == nil {
		_, err = exec.LookPath("chromium")
	}
	if err != nil {
		if os.Getenv(requiredEnv) != "" {
			t.Fatalf("there is no browser: %v; on Debian, install the packages chromium and chromium-driver", err)
		}
		t.Skipf("there is no browser to look at the map with: %v; on Debian, install the packages chromium and chromium-driver", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, path, "--port=0")
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
	})
	started := regexp.MustCompile(`started successfully on port (\d+)`)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if match := started.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return "http://127.0.0.1:" + match[1]
		}
	}
	t.Fatal("chromedriver has ended without saying which port it listens on")
	return ""
}

// open opens a window of a size. A scheme is light or dark.
func open(t *testing.T, driver string, width, height int, scheme string) *browser {
	t.Helper()
	arguments := []string{"--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", fmt.Sprintf("--window-size=%d,%d", width, height)}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--no-sandbox") // it has none for root
	}
	if scheme == "dark" {
		arguments = append(arguments, "--force-dark-mode")
	}
	// Narrow windows are emulated: a real one is 500 pixels wide at least.
	options := map[string]any{"args": arguments, "mobileEmulation": map[string]any{"deviceMetrics": map[string]any{"width": width, "height": height, "pixelRatio": 1, "touch": false, "mobile": false}}}
	b := &browser{t: t, session: driver + "/session"}
	created := b.call(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": map[string]string{"browser": "ALL"},
	}}})
	var session struct{ SessionID string }
	require.NoError(t, json.Unmarshal(created, &session))
	b.session += "/" + session.SessionID
	t.Cleanup(func() { b.call(http.MethodDelete, "", nil) })
	return b
}

// call sends a command of WebDriver, and returns its value.
func (b *browser) call(method, path string, body any) json.RawMessage {
	b.t.Helper()
	value, err := b.try(method, path, body)
	require.NoError(b.t, err)
	return value
}

func (b *browser) try(method, path string, body any) (json.RawMessage, error) {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode a command: %w", err)
		}
		sent = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, b.session+path, sent)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask chromedriver: %w", err)
	}
	defer response.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read the answer of chromedriver: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("chromedriver: %s: %s", response.Status, answer.Value)
	}
	return answer.Value, nil
}

func (b *browser) goTo(address string) {
	b.t.Helper()
	b.call(http.MethodPost, "/url", map[string]any{"url": address})
}

// run runs JavaScript in the page, and decodes what it returns.
func run[T any](b *browser, script string, arguments ...any) T {
	b.t.Helper()
	if arguments == nil {
		arguments = []any{}
	}
	value := b.call(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": arguments})
	var result T
	require.NoError(b.t, json.Unmarshal(value, &result), "%s", value)
	return result
}

// await waits until a JavaScript expression is true.
func (b *browser) await(expression string, arguments ...any) {
	b.t.Helper()
	for start := time.Now(); time.Since(start) < patience; time.Sleep(30 * time.Millisecond) {
		if run[bool](b, "return Boolean("+expression+")", arguments...) {
			return
		}
	}
	require.Fail(b.t, "it does not get true", "%s; the page says: %s", expression, run[string](b, "return document.body.innerText.slice(0, 3000)"))
}

// text is that of the first element of a CSS selector.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return run[string](b, "return document.querySelector(arguments[0]).innerText", selector)
}

// find returns the WebDriver's reference to an element.
func (b *browser) find(selector string) string {
	b.t.Helper()
	var element map[string]string
	require.NoError(b.t, json.Unmarshal(b.call(http.MethodPost, "/element", map[string]any{"using": "css selector", "value": selector}), &element))
	for _, id := range element {
		return id
	}
	return ""
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.call(http.MethodPost, "/element/"+b.find(selector)+"/click", map[string]any{})
}

// write replaces what is in a field.
func (b *browser) write(selector, text string) {
	b.t.Helper()
	id := b.find(selector)
	b.call(http.MethodPost, "/element/"+id+"/clear", map[string]any{})
	b.call(http.MethodPost, "/element/"+id+"/value", map[string]any{"text": text})
}

// Keys of WebDriver.
const (
	keyTab   = "\ue004"
	keyEnter = "\ue007"
	keyEsc   = "\ue00c"
	keyRight = "\ue014"
	keyDown  = "\ue015"
	keyEnd   = "\ue010"
	keyHome  = "\ue011"
)

// press types keys where the focus is.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	var actions []map[string]any
	for _, key := range keys {
		actions = append(actions, map[string]any{"type": "keyDown", "value": key}, map[string]any{"type": "keyUp", "value": key})
	}
	b.call(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{"type": "key", "id": "keyboard", "actions": actions}}})
}

// point moves the pointer over an element.
func (b *browser) point(selector string) {
	b.t.Helper()
	origin := map[string]string{"element-6066-11e4-a52e-4f735466cecf": b.find(selector)}
	b.call(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		map[string]any{"type": "pointerMove", "origin": origin, "x": 0, "y": 0, "duration": 0},
	}}}})
}

// complaints are what the browser's console has: errors of scripts, and what the Content-Security-Policy forbids.
func (b *browser) complaints() []string {
	b.t.Helper()
	var entries []struct{ Level, Message string }
	require.NoError(b.t, json.Unmarshal(b.call(http.MethodPost, "/se/log", map[string]any{"type": "browser"}), &entries))
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Level+" "+entry.Message)
	}
	return all
}

// picture is a PNG of what is seen.
func (b *browser) picture() []byte {
	b.t.Helper()
	var encoded string
	require.NoError(b.t, json.Unmarshal(b.call(http.MethodGet, "/screenshot", nil), &encoded))
	png, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(b.t, err)
	return png
}
