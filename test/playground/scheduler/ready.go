package scheduler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	readyTimeout      = 60 * time.Second
	readyPollInterval = 50 * time.Millisecond
	// logTailBytes limits the part of the log in an error, in bytes.
	logTailBytes = 2048
)

// freePort returns a loopback address that was just free. kube-scheduler does not report a port that it chose itself,
// so the caller must choose one; if another process takes it first, the start fails and the log says so.
func freePort() (host, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer listener.Close()
	return net.SplitHostPort(listener.Addr().String())
}

// waitReady polls a path until it answers 200, the process ends, or the time is over: that of ctx or readyTimeout,
// whichever is shorter.
func (r *run) waitReady(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	transport := &http.Transport{
		// The scheduler's certificate is self-signed.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ticker := time.NewTicker(readyPollInterval)
	defer ticker.Stop()
	last := errors.New("no answer yet")
	for {
		select {
		case <-r.done:
			return fmt.Errorf("it ended before it was ready (%v)", r.waitErr)
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w; last answer of https://%s%s: %w", ctx.Err(), r.address, path, last)
		case <-ticker.C:
		}
		err := probe(ctx, client, "https://"+r.address+path)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, logTailBytes))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", response.StatusCode, bytes.TrimSpace(body))
	}
	return nil
}

// logTail returns the last lines of a log, at most logTailBytes.
func logTail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	offset := max(0, info.Size()-logTailBytes)
	tail, err := io.ReadAll(io.NewSectionReader(file, offset, logTailBytes))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if offset > 0 {
		if _, rest, found := bytes.Cut(tail, []byte("\n")); found {
			tail = rest
		}
	}
	if len(bytes.TrimSpace(tail)) == 0 {
		return "(the log is empty)"
	}
	return string(bytes.TrimSpace(tail))
}
