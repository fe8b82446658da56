package write

import (
	"context"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Webhook is the name of the guard's webhook in its ValidatingWebhookConfiguration.
const Webhook = "claims.quartermaster-dra.github.io"

// Denied reports whether the guard has denied a write: another claim holds the devices, and the watch will show that.
func Denied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"`+Webhook+`" denied the request`)
}

// Text is the warning.
const Text = "quartermaster-guard: checked"

// GuardWarning records whether an answer to the requests of a context had the warning.
type GuardWarning struct{ seen atomic.Bool }

// Seen reports whether a guard was asked. It is true if this process cannot know, see Install.
func (m *GuardWarning) Seen() bool { return m.seen.Load() || !installed.Load() }

type key struct{}

// Recording returns a context for requests, and the GuardWarning of their answers.
func Recording(ctx context.Context) (context.Context, *GuardWarning) {
	mark := &GuardWarning{}
	return context.WithValue(ctx, key{}, mark), mark
}

var installed atomic.Bool

// Install makes all clients of this process without their own warning handler record guard warnings, and log other warnings as
// usual. Call it once, before any client exists.
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
	if mark, ok := ctx.Value(key{}).(*GuardWarning); ok {
		mark.seen.Store(true)
	}
}
