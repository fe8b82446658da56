// Package marks is how a scheduler of ours knows of each of its allocations whether a guard was asked
// about it: the guard has the API server add a warning to the answer, for writes of our field
// manager. If it is missing, the API server has let the write pass without (failurePolicy
// Ignore), and the scheduler knows at once that there is no guard in place.
package marks

import (
	"context"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Webhook is the guard's name in its ValidatingWebhookConfiguration.
const Webhook = "claims.quartermaster-dra.github.io"

// Denied reports whether the guard has denied a write: somebody else has what was to be allocated, and
// the watch is going to show that.
func Denied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"`+Webhook+`" denied the request`)
}

// Text is the warning.
const Text = "quartermaster-guard: checked"

// Mark is whether the answers to requests with some context had the warning.
type Mark struct{ seen atomic.Bool }

// Seen reports whether a guard was asked. It is true if this process cannot know, see Install.
func (m *Mark) Seen() bool { return m.seen.Load() || !installed.Load() }

type key struct{}

// Recording returns a context for requests, and what is going to be known of them.
func Recording(ctx context.Context) (context.Context, *Mark) {
	mark := &Mark{}
	return context.WithValue(ctx, key{}, mark), mark
}

var installed atomic.Bool

// Install has all clients of this process that have no handler for warnings of their own tell of
// marks, and log all other warnings as usual. It is called once, before there are any.
func Install() {
	rest.SetDefaultWarningHandlerWithContext(Handler{})
	installed.Store(true)
}

// Handler implements rest.WarningHandlerWithContext.
type Handler struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (Handler) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if text != Text {
		rest.WarningLogger{}.HandleWarningHeaderWithContext(ctx, code, agent, text)
		return
	}
	if mark, ok := ctx.Value(key{}).(*Mark); ok {
		mark.seen.Store(true)
	}
}
