package scenario

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// summary names everything in a snapshot.
func summary(s *Snapshot) []string {
	var names []string
	for _, pod := range s.Pods {
		names = append(names, "pod "+pod.Name)
	}
	for _, claim := range s.Claims {
		names = append(names, "claim "+claim.Name)
	}
	for _, event := range s.Events {
		names = append(names, "event "+event.Name)
	}
	for _, slice := range s.Slices {
		names = append(names, "slice "+slice.Name)
	}
	slices.Sort(names)
	return names
}

func TestSourcesAgree(t *testing.T) {
	t.Parallel()
	elsewhere := boundPod("app", "elsewhere")
	elsewhere.Namespace = "other"
	event := eventAbout("a", "text")
	event.Name, event.Namespace = "e", "ns"
	client := fake.NewClientset(boundPod("app", "a", "c"), elsewhere, event,
		allocatedClaim("c", []string{"gpu-0"}, "a"), snapshotOf().Slices[0])
	recorder := NewRecorder()
	cache, err := NewCache(t.Context(), client, recorder)
	require.NoError(t, err)
	want := []string{"claim c", "event e", "pod a", "slice n-gpu.example.com"}
	for name, source := range map[string]Source{"cache": cache, "live": LiveSource{Client: client}} {
		snapshot, err := source.Snapshot(t.Context(), "ns")
		require.NoError(t, err, name)
		require.Equal(t, "ns", snapshot.Namespace, name)
		require.Equal(t, want, summary(snapshot), name)
	}
	// Handlers run on their own, after the caches are filled.
	require.Eventually(t, func() bool {
		rows := recorder.Rows("ns")
		return len(rows) == 1 && strings.Join(rows[0].Lines, "") == "c/gpu -> gpu-0"
	}, 3*time.Minute, time.Millisecond)
}

// asked counts the requests for the default account of a namespace.
func asked(client *fake.Clientset, namespace string) int {
	count := 0
	for _, action := range client.Actions() {
		if action.Matches("get", "serviceaccounts") && action.GetNamespace() == namespace {
			count++
		}
	}
	return count
}

func TestDefaultAccounts(t *testing.T) {
	t.Parallel()
	account := func(namespace string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	}
	client := fake.NewClientset(account("early"))
	ready := make(chan error)
	go func() { ready <- DefaultAccounts(client)(t.Context(), []string{"early", "late"}) }()
	require.Eventually(t, func() bool { return asked(client, "late") >= 2 }, 3*time.Minute, time.Millisecond,
		"it asks again for an account that is not there")
	_, err := client.CoreV1().ServiceAccounts("late").Create(t.Context(), account("late"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, <-ready)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, DefaultAccounts(client)(ctx, []string{"never"}), "service account never/default")
}
