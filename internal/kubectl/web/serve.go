package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Server serves a map on loopback.
type Server struct {
	listener net.Listener
	http     *http.Server
	// Address is the URL of the page, with the token.
	Address string
}

// Listen returns a server on a port of 127.0.0.1, or on any free port if port is 0.
func Listen(shown *Map, port int) (*Server, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen on 127.0.0.1: %w; choose another --port", err)
	}
	_, own, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("find out the port: %w", err)
	}
	token := NewToken()
	return &Server{
		listener: listener,
		Address:  "http://" + net.JoinHostPort("127.0.0.1", own) + "/" + token + "/",
		http: &http.Server{
			Handler: Handler(shown, token, own), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: questionPatience,
			IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		},
	}, nil
}

// Serve serves until the context ends.
func (s *Server) Serve(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx } // This ends event streams.
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(s.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the map: %w", err)
	case <-ctx.Done():
	}
	_ = s.http.Close() // No client waits for unfinished answers.
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the map: %w", err)
	}
	return nil
}
