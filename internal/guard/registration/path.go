package registration

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// By default, API servers show no certificate, but they know the configuration, which tenants may not read. So the
// guard's path is a secret.
const (
	// pathLasts is the lifetime of a guard's path: while the guard is unreachable, API servers reveal the path in
	// errors to clients whose writes they refuse.
	pathLasts = 10 * time.Minute
	// pathCounts is the time for which the guard accepts a path after the configuration had it: API servers learn of
	// a new path with a delay, which is long if their watches lag.
	pathCounts = 10 * time.Minute
	// unknownInterval is the least interval of the looks that requests at unknown paths trigger, and mostUnknown
	// bounds the requests that wait for them.
	unknownInterval = time.Second
	mostUnknown     = 256
)

// secret returns the path of this guard, and changes it when it is too old.
func (r *Registrar) secret() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.path == "" || time.Since(r.made) >= pathLasts {
		r.path, r.made = "/"+strings.ToLower(rand.Text()), time.Now()
	}
	return r.path
}

// pathOf returns the guards' path in a configuration, "" if it has none.
func pathOf(config *admissionregistrationv1.ValidatingWebhookConfiguration) string {
	webhook := webhookOf(config)
	if webhook == nil {
		return ""
	}
	if service := webhook.ClientConfig.Service; service != nil {
		return "/" + strings.TrimPrefix(ptr.Deref(service.Path, ""), "/")
	}
	parsed, err := url.Parse(ptr.Deref(webhook.ClientConfig.URL, ""))
	if err != nil {
		return ""
	}
	return "/" + strings.TrimPrefix(parsed.Path, "/")
}

// Expect announces a path that the configuration is about to have.
func (l *Lookout) Expect(path string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.paths == nil {
		l.paths = make(map[string]time.Time)
	}
	l.paths[path] = time.Now()
}

// Asked reports whether API servers may use a path: it is or recently was in the configuration. The configuration may
// have changed since the last look, so Asked looks again before it refuses a path.
func (l *Lookout) Asked(ctx context.Context, path string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.counts(path) || l.unknown >= mostUnknown {
		return l.counts(path)
	}
	l.unknown++
	if l.next == nil {
		l.next = make(chan struct{})
		go l.lookNext(context.WithoutCancel(ctx))
	}
	next := l.next
	l.mutex.Unlock()
	select {
	case <-next:
	case <-ctx.Done():
	}
	l.mutex.Lock()
	l.unknown--
	return l.counts(path)
}

// counts reports whether a path is known. The caller holds the lock.
func (l *Lookout) counts(path string) bool {
	named, found := l.paths[path]
	return found && (path == l.path || time.Since(named) < pathCounts)
}

// lookNext looks for the waiting requests, after the interval. Requests that arrive during the look wait for the next
// one.
func (l *Lookout) lookNext(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookInterval)
	defer cancel()
	l.mutex.Lock()
	wait := unknownInterval - time.Since(l.again)
	l.mutex.Unlock()
	time.Sleep(wait)
	l.mutex.Lock()
	next := l.next
	l.next, l.again = nil, time.Now()
	l.mutex.Unlock()
	l.Look(ctx)
	close(next)
}

// saw records the path of the configuration, and forgets outdated paths. The caller holds the lock.
func (l *Lookout) saw(path string) {
	now := time.Now()
	if l.paths == nil {
		l.paths = make(map[string]time.Time)
	}
	for other, named := range l.paths {
		if now.Sub(named) >= pathCounts {
			delete(l.paths, other)
		}
	}
	if l.path = path; path != "" {
		l.paths[path] = now
	}
}
