package webhook

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// of returns length spaces. A strings.Reader on them makes the client send a Content-Length.
func of(length int) string { return strings.Repeat(" ", length) }

// withoutLength hides the length of a body from the client.
type withoutLength struct{ io.Reader }

func TestSizes(t *testing.T) {
	t.Parallel()
	server := answers(t, newDecider())
	asked := string(raw(t, allocating(t, "x")))
	for name, body := range map[string]io.Reader{
		"said":     strings.NewReader(asked + of(maxBody-len(asked)+1)),
		"not said": withoutLength{strings.NewReader(asked + of(maxBody-len(asked)+1))},
	} {
		code, text := post(t, server, body)
		require.Equal(t, http.StatusRequestEntityTooLarge, code, name)
		require.Contains(t, text, "which no claim can be", name)
	}
	for name, body := range map[string]io.Reader{
		"small, not said":  withoutLength{strings.NewReader(asked)},
		"small":            strings.NewReader(asked + of(smallBody-len(asked))),
		"large":            strings.NewReader(asked + of(smallBody-len(asked)+1)),
		"largest":          strings.NewReader(asked + of(maxBody-len(asked))),
		"largest, no size": withoutLength{strings.NewReader(asked + of(maxBody-len(asked)))},
	} {
		code, text := post(t, server, body)
		require.Equal(t, http.StatusOK, code, "%s: %s", name, text)
	}
}

// begun begins to send a request and does not go on. The answer's code is sent to the channel.
func begun(t *testing.T, server *httptest.Server) <-chan int {
	t.Helper()
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	go func() { _, _ = writer.Write([]byte("{")) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reader)
	require.NoError(t, err)
	request.ContentLength = 1000
	code := make(chan int, 1)
	go func() {
		response, err := server.Client().Do(request)
		if err != nil {
			code <- 0
			return
		}
		_ = response.Body.Close()
		code <- response.StatusCode
	}()
	return code
}

// A client that begins to send a request and stops is not waited for forever, and takes no slot from others
// meanwhile, even if there are more such clients than slots.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	server := answers(t, newDecider())
	var slow []<-chan int
	for range 2 * smallSlots {
		slow = append(slow, begun(t, server))
	}
	require.True(t, ask(t, server, allocating(t, "x")).Allowed)
	for _, code := range slow {
		require.Equal(t, http.StatusBadRequest, <-code)
	}
}

// If there are too many, the oldest has to go.
func TestTooManySlowBodies(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		h := NewHandler(newDecider(), nil)
		h.limits.small.most, h.limits.small.timeout = 2, time.Hour
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		arriving := func(n int) {
			t.Helper()
			require.Eventually(t, func() bool {
				h.limits.small.mutex.Lock()
				defer h.limits.small.mutex.Unlock()
				return h.limits.small.byAge.Len() == n
			}, 3*time.Minute, time.Millisecond)
		}
		first := begun(t, server)
		arriving(1)
		second := begun(t, server)
		arriving(2)
		require.True(t, ask(t, server, allocating(t, "x")).Allowed)
		require.Equal(t, http.StatusServiceUnavailable, <-first)
		third := begun(t, server)
		arriving(2)
		require.True(t, ask(t, server, allocating(t, "x")).Allowed)
		require.Equal(t, http.StatusServiceUnavailable, <-second)
		arriving(1)
		begun(t, server)
		begun(t, server)
		require.Equal(t, http.StatusServiceUnavailable, <-third)
	}
}

// waits answers about some claims only when it is told to.
type waits struct {
	slow    types.UID
	reached sync.WaitGroup
	goOn    chan struct{}
}

func (w *waits) Review(ctx context.Context, r *guard.Request) guard.Answer {
	if r.Claim.UID == w.slow {
		w.reached.Done()
		select {
		case <-w.goOn:
		case <-ctx.Done():
		}
	}
	return guard.Answer{}
}

// Waiting requests do not keep others from being answered, whatever their number.
func TestRequestsThatWait(t *testing.T) {
	t.Parallel()
	w := &waits{slow: b.Claim("slow").Obj().UID, goOn: make(chan struct{})}
	server := answers(t, w)
	const slow = 2 * smallSlots
	w.reached.Add(slow)
	asked := string(raw(t, allocating(t, "slow")))
	var waiting sync.WaitGroup
	codes := make(chan int, slow)
	for range slow {
		waiting.Go(func() {
			response, err := server.Client().Post(server.URL, "application/json", strings.NewReader(asked))
			if err != nil {
				codes <- 0
				return
			}
			_ = response.Body.Close()
			codes <- response.StatusCode
		})
	}
	w.reached.Wait() // All of them have got that far.
	require.True(t, ask(t, server, allocating(t, "x")).Allowed)
	close(w.goOn)
	waiting.Wait()
	for range slow {
		require.Equal(t, http.StatusOK, <-codes)
	}
}

// What the guard keeps of a request while that waits is small.
func TestBytesAreNotKept(t *testing.T) {
	t.Parallel()
	review, request, err := decode(raw(t, allocating(t, "x")))
	require.NoError(t, err)
	require.NotNil(t, request.After)
	require.Empty(t, review.Request.Object.Raw)
	require.Empty(t, review.Request.OldObject.Raw)
	require.Equal(t, admissionv1.Update, review.Request.Operation)
}
