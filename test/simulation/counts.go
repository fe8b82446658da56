package simulation

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// events returns the number of events: requests that the server accepted or refused, and acts. It must be called after the end.
func (s *Server) events() int {
	return s.Requests + int(s.refused.Load()+s.acts.Load())
}

// count returns the number of answered requests of each kind so far.
func (s *Server) count() map[string]int {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	return maps.Clone(s.Kinds)
}

// most returns the most frequent kinds of requests. The mutex is held.
func (s *Server) most() (kinds []string) {
	all := slices.SortedFunc(maps.Keys(s.Kinds), func(a, b string) int { return s.Kinds[b] - s.Kinds[a] })
	for _, kind := range all[:min(5, len(all))] {
		kinds = append(kinds, fmt.Sprintf("%d %s", s.Kinds[kind], strings.TrimSpace(kind)))
	}
	return kinds
}

// since returns the number and the kinds of requests since an earlier count. It leaves out the requests that replicas send at
// intervals.
func (s *Server) since(before map[string]int) (n int, kinds []string) {
	for kind, times := range s.count() {
		times -= before[kind]
		if times > 0 && !strings.Contains(kind, " leases ") && !strings.HasPrefix(kind, foreign) && !strings.Contains(kind, " events") && !strings.Contains(kind, "GET validatingwebhookconfigurations") && !strings.HasSuffix(kind, "GET resourceclaims ") {
			n += times
			kinds = append(kinds, fmt.Sprintf("%d %s", times, strings.TrimSpace(kind)))
		}
	}
	slices.Sort(kinds)
	return n, kinds
}

// kindOf returns the kind of a request: its client, its verb, and its resource.
func kindOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[min(2, len(parts)):]
	if len(parts) >= 3 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	text := r.Header.Get("User-Agent") + " " + r.Method + " "
	for i, p := range parts {
		if i != 1 {
			text += p + " "
		} else {
			text += "x "
		}
	}
	if r.URL.Query().Get("watch") != "" {
		text += "watch"
	}
	return text
}
