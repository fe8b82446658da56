package main

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/test/checker"
)

// settleTimeout limits how long controllers may take to clean up after the demo.
const settleTimeout = 10 * time.Second

// invariants asks the independent checker what is wrong in the cluster.
func invariants(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	violations, err := checker.WaitSettled(ctx, client, checker.Options{})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, violation := range violations {
		texts = append(texts, violation.String())
	}
	return texts, nil
}
