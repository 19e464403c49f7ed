"""A model and programs of the tests of exported C: NAME stands for the name of a network."""

TRAINED = """
model Wide_Net(c=8):
    input x: f32[N, C=3, W=24]
    input k: i64[N]
    input W: f32[N, V=4]
    input Wide_Net: f64[N, V]
    target t: f32[N, C=2, W=24]
    param e: [K=5] ~ normal(0, 1)
    g = sum(one_hot(k, K=5) * e, over=K)
    h = x * mean(W * (Wide_Net as f32), over=V) + g |> conv(c, 3, pad=1) @a |> relu
    y = h |> conv(2, 3, pad=1) @b
    long = argmax(mean(y, over=W), over=C)
    some = y[C=0] > 0
    wide_net_y = y as f64
    low = y as bf16
    half = y as f16
    whole = sum(y, over=N)
    output y
    output whole
    output long
    output some
    output wide_net_y
    output low
    output half
    loss = mse_loss(y, t)
"""

THREADS = """
#include "NAME.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static float x[2][NAME_X_COUNT], y[2][NAME_Y_COUNT];
static int wrong;
static void *call(void *which) {
    long i = (long)which;
    float own[NAME_Y_COUNT];
    char *work = malloc(NAME_WORK_BYTES + 8);
    for (int k = 0; k < 300; k++) {
        memset(work, k * 85, NAME_WORK_BYTES + 8); /* any contents, and any address */
        NAME_predict(x[i], own, work + k % 8);
        if (memcmp(own, y[i], sizeof own)) wrong = 1;
    }
    free(work);
    return NULL;
}
int main(void) {
    char *work = malloc(NAME_WORK_BYTES);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < NAME_X_COUNT; j++) x[i][j] = (float)((j * 7 + i) % 11);
        if (NAME_predict(x[i], y[i], work)) return 2;
    }
    pthread_t thread[2];
    for (long i = 0; i < 2; i++) pthread_create(&thread[i], NULL, call, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    free(work);
    return wrong || !memcmp(y[0], y[1], sizeof y[0]);
}
"""

FORTRAN = """
program main
   use NAME
   use, intrinsic :: iso_c_binding
   implicit none
   real(c_float) :: x(NAME_x_count), y(NAME_y_count)
   integer(c_int8_t), allocatable :: work(:)
   integer :: i
   allocate(work(NAME_work_bytes))
   open(10, file='in_x', access='stream', form='unformatted', status='old')
   open(11, file='out_f', access='stream', form='unformatted', status='replace')
   do i = 1, 2
      read(10) x
      if (NAME_predict(x, y, work) /= 0) error stop 'no prediction'
      write(11) y
   end do
end program main
"""
