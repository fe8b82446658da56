package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
)

// get returns what a scheduler answers, a metric or a profile.
func get(ctx context.Context, address, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	// The scheduler makes itself a certificate that nobody knows.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the scheduler: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the scheduler: GET %s: %w", request.URL, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the scheduler: GET %s: %s: %s; its log says more", request.URL, response.Status, answer)
	}
	return answer, nil
}
