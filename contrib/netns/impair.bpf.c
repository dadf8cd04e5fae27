/* tc classifier on the ingress of a host's link: drops, doubles, damages or delays packets of UDP
 * and TCP at random. Compiled by contrib/netns/impair with the shares in units of 2^-32 and the
 * index of the slow device. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))

enum { SEEN, LOST, DOUBLED, DAMAGED, DELAYED, KINDS };

struct {
  int (*type)[BPF_MAP_TYPE_ARRAY];
  int (*max_entries)[KINDS];
  __u32* key;
  __u64* value;
} counts SEC(".maps");

static void* (*map_lookup)(void*, const void*) = (void*)BPF_FUNC_map_lookup_elem;
static __u32 (*random_u32)(void) = (void*)BPF_FUNC_get_prandom_u32;
static long (*load_bytes)(const void*, __u32, void*, __u32) = (void*)BPF_FUNC_skb_load_bytes;
static long (*store_bytes)(void*, __u32, const void*, __u32,
                           __u64) = (void*)BPF_FUNC_skb_store_bytes;
static long (*clone_redirect)(void*, __u32, __u64) = (void*)BPF_FUNC_clone_redirect;
static long (*redirect)(__u32, __u64) = (void*)BPF_FUNC_redirect;

/* Of packets that come back from here: they are not impaired twice. */
static const __u32 mark = 0x696d70;
/* Ethernet, IPv4 and UDP headers. */
static const __u32 headers = 42;

static void count(__u32 kind) {
  __u64* value = map_lookup(&counts, &kind);
  if (value) __sync_fetch_and_add(value, 1);
}

static void damage(struct __sk_buff* skb) {
  __u8 byte;
  __u32 at;
  if (skb->len <= headers) return;
  at = headers + random_u32() % (skb->len - headers);
  if (load_bytes(skb, at, &byte, 1) < 0) return;
  byte ^= 1 << (random_u32() & 7);
  if (store_bytes(skb, at, &byte, 1, 0) == 0) count(DAMAGED);
}

SEC("tc") int impair(struct __sk_buff* skb) {
  __u8 protocol = 0;
  if (skb->mark == mark) {
    skb->mark = 0;
    return TC_ACT_OK;
  }
  if (skb->protocol != __builtin_bswap16(0x0800) || load_bytes(skb, 23, &protocol, 1) < 0)
    return TC_ACT_OK;
  if (protocol != 6 && protocol != 17) return TC_ACT_OK;
  count(SEEN);
  if (random_u32() < LOSS) {
    count(LOST);
    return TC_ACT_SHOT;
  }
  if (random_u32() < DUPLICATE) {
    skb->mark = mark;
    if (clone_redirect(skb, skb->ifindex, BPF_F_INGRESS) == 0) count(DOUBLED);
    skb->mark = 0;
  }
  /* TCP would not notice: nobody verifies its checksum on a link inside one machine. */
  if (protocol == 17 && random_u32() < CORRUPT) damage(skb);
  if (random_u32() < REORDER) {
    skb->mark = mark;
    count(DELAYED);
    return redirect(SLOW_DEVICE, 0);
  }
  return TC_ACT_OK;
}

SEC("license") const char license_text[] = "Dual BSD/GPL";
