package playground

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints lines with the time since its start. It is safe for concurrent use.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, began: time.Now()}
}

// line prints one line. It ignores write errors, for example of a closed terminal.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%5.1fs] %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
