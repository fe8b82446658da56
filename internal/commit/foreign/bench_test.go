package foreign

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkLook measures how long a pod waits for a full look, beside pods of other schedulers in
// another namespace.
func BenchmarkLook(b *testing.B) {
	for _, pods := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			w := newForeignWorld(b)
			for i := range pods {
				w.contend(fmt.Sprint("theirs-", i), "gpu", elsewhere)
			}
			pod := &v1.Pod{}
			pod.Namespace, pod.UID = "ns", types.UID("p")
			for b.Loop() {
				w.latest = nil
				if w.Begin(pod, allocation()).Contested() {
					b.Fatal("it has no time to spare for others")
				}
			}
		})
	}
}
