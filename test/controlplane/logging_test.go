package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testLogsEtcdClients checks that the warnings of the API server's etcd
// clients, which go to standard error by default, are in the log. It provokes
// one: it gives up writes at moments of which some must be the wrong one.
func testLogsEtcdClients(t *testing.T, c *ControlPlane) {
	configMaps := admin(t, c).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	attempt := 0
	eventually(t, "a warning in the log", func(ctx context.Context) error {
		for range 50 {
			attempt++
			short, cancel := context.WithTimeout(ctx, time.Duration(attempt%40)*100*time.Microsecond)
			_, err := configMaps.Create(short, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "given-up-"}}, metav1.CreateOptions{})
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
		content, err := os.ReadFile(c.LogFile())
		if err == nil && !bytes.Contains(content, []byte("retrying of unary invoker failed")) {
			err = fmt.Errorf("no warning after %d writes", attempt)
		}
		return err
	})
	require.NoError(t, configMaps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}
