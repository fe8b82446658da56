package simulation

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	driver    = "gpu.example.com"
	namespace = "default"
)

// ignore drops the result of a request: its object may be gone, or may exist already.
func ignore(any, error) {}

func (w *World) createNode(name string) {
	node := builder.Node(name, "kubernetes.io/hostname", name)
	node.Status.Allocatable = builder.Resources("cpu", "16", "memory", "64Gi", "pods", "20")
	node.Status.Capacity = node.Status.Allocatable
	ignore(w.client.CoreV1().Nodes().Create(w.ctx, node, metav1.CreateOptions{}))
}

func (w *World) deleteNode(name string) {
	_ = w.client.CoreV1().Nodes().Delete(w.ctx, name, metav1.DeleteOptions{})
}

func (w *World) cordon(name string, on bool) {
	node, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	node.Spec.Unschedulable = on
	ignore(w.client.CoreV1().Nodes().Update(w.ctx, node, metav1.UpdateOptions{}))
}

func (w *World) createTemplate(kind string) {
	template := claimOf(kind).Template()
	template.Name = kind
	ignore(w.client.ResourceV1().ResourceClaimTemplates(namespace).Create(w.ctx, template, metav1.CreateOptions{}))
}

func (w *World) deleteTemplate(kind string) {
	_ = w.client.ResourceV1().ResourceClaimTemplates(namespace).Delete(w.ctx, kind, metav1.DeleteOptions{})
}

func (w *World) createClaim(name, kind string) {
	claim := claimOf(kind).Obj()
	claim.Name = name
	ignore(w.client.ResourceV1().ResourceClaims(namespace).Create(w.ctx, claim, metav1.CreateOptions{}))
}

func (w *World) deleteClaim(name string) {
	_ = w.client.ResourceV1().ResourceClaims(namespace).Delete(w.ctx, name, metav1.DeleteOptions{})
}

func (w *World) createRule(name, node, device, effect string) {
	w.createRuleOf(name, driver, node, device, effect)
}

func (w *World) createRuleOf(name, driver, node, device, effect string) {
	rule := builder.TaintRule(name, driver, node, device, "example.com/broken", resourceapi.DeviceTaintEffect(effect))
	ignore(w.client.ResourceV1().DeviceTaintRules().Create(w.ctx, rule, metav1.CreateOptions{}))
}

func (w *World) deleteRule(name string) {
	_ = w.client.ResourceV1().DeviceTaintRules().Delete(w.ctx, name, metav1.DeleteOptions{})
}

func (w *World) pauseReplica(replica int, d time.Duration) {
	if replica >= len(w.replicas) {
		return
	}
	c := w.replicas[replica].connection
	c.Pause()
	w.group.Go(func() {
		_ = pause(w.ctx, d)
		c.Resume()
	})
}

// storm makes the weather bad for all replicas for a while.
func (w *World) storm(bad Weather, lasts time.Duration) {
	for _, r := range w.replicas {
		c := r.connection
		c.Set(bad)
		w.group.Go(func() {
			_ = pause(w.ctx, lasts)
			c.Set(Calm)
		})
	}
}
