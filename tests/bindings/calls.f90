! Calls of the module dlc that must work, and those that must be refused: calls RUN X Y FOLDER
! [traps], with the raw input and the prediction of dlrun predict; traps: compiled with
! -ffpe-trap=zero. Prints "N passed, M failed".
module logged
  implicit none
  character(len=:), allocatable :: text
contains
  subroutine note(level, line)
    integer, intent(in) :: level
    character(len=*), intent(in) :: line
    if (level >= 0) text = text//line
  end subroutine note
end module logged

program calls
  use dlc
  use logged
  use, intrinsic :: ieee_exceptions, only: ieee_divide_by_zero, ieee_get_flag, ieee_get_halting_mode
  use, intrinsic :: iso_fortran_env, only: int32, real32, real64
  implicit none
  logical :: traps, divided
  integer :: passed = 0, failed = 0
  character(len=4096) :: run, input, truth, folder
  real(real32) :: x(32, 1, 24), y(32, 1, 24)
  type(dlc_status) :: status

  call get_command_argument(1, run)
  call get_command_argument(2, input)
  call get_command_argument(3, truth)
  call get_command_argument(4, folder)
  call load(input, x)
  call load(truth, y)
  call predicts()
  call trains()
  call of_real64()
  call leaves_out()
  call faulty()
  call ieee_get_halting_mode(ieee_divide_by_zero, traps)
  call ieee_get_flag(ieee_divide_by_zero, divided)
  call check((traps .eqv. command_argument_count() == 5) .and. .not. divided, &
             'the floating-point environment is as it was')
  print '(i0, a, i0, a)', passed, ' passed, ', failed, ' failed'
  if (failed > 0) stop 1

contains

  subroutine load(path, values)
    character(len=*), intent(in) :: path
    real(real32), intent(out) :: values(:, :, :)
    integer :: unit
    open (newunit=unit, file=trim(path), access='stream', form='unformatted', status='old')
    read (unit) values
    close (unit)
  end subroutine load

  subroutine check(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (ok) then
      passed = passed + 1
    else
      failed = failed + 1
      print '(3a, i0, 1x, a)', 'failed: ', what, ': ', status%code, trim(status%message)
    end if
  end subroutine check

  subroutine refused(code, part)
    integer, intent(in) :: code
    character(len=*), intent(in) :: part
    call check(status%code == code .and. index(status%message, part) > 0, part)
  end subroutine refused

  subroutine predicts()
    type(dlc_model) :: net
    type(dlc_tensor) :: field
    real(real32) :: found(32, 1, 24), wide(32, 2, 24), flat(32, 24), rows(24, 1, 32)
    real(real64) :: doubles(32, 1, 24)
    call dlc_open(net, trim(run), status, batch=4, threads=1, device='cpu')
    call check(status%code == 0 .and. net%is_open(), 'opens')
    call net%describe(dlc_input, 1, field, status)
    call check(field%name == 'x' .and. field%rank == 3 .and. field%dtype == dlc_f32 .and. &
               all(field%extents(:3) == [32, 1, 4]) .and. field%axes(1) == 'W', 'describes')
    call check(net%count(dlc_output) == 1 .and. net%count(dlc_parameter) == 4 .and. &
               net%memory() > 0 .and. dlc_version() /= '', 'counts')
    call net%predict(x, found, status)
    call check(status%code == 0 .and. all(found == y), 'the bits of dlrun predict')
    wide = 0
    wide(:, 2:2, :) = x
    found = 0
    call net%predict(wide(:, 2:2, :), wide(:, 1:1, :), status)
    call check(status%code == 0 .and. all(wide(:, 1:1, :) == y), 'sections')
    call net%predict(x(:, :, 1:24:2), found(:, :, 1:24:2), status)
    call check(all(found(:, :, 1:24:2) == y(:, :, 1:24:2)) .and. all(found(:, :, 2:24:2) == 0), 'strides')
    call net%predict([dlc_array(x)], [dlc_array(found)], status)
    call check(all(found == y), 'lists')
    doubles = 0

    call net%predict(flat, found, status)
    call refused(3, "'x' is of the shape (32, 1, samples), and the array (32, 24)")
    call net%predict(rows, found, status)
    call refused(3, 'and the array (24, 1, 32)')
    call net%predict(x, found(:, :, :8), status)
    call refused(3, "'y' has 8 samples, and the arrays before it 24")
    call net%predict(real(x, real64), doubles, status)
    call refused(3, "'x' is real32, and the array real64")
    call net%predict([dlc_array(x), dlc_array(x)], [dlc_array(found)], status)
    call refused(2, '2 arrays are given, and the model has 1 inputs')
    call net%predict([dlc_array(wide(:, 2:2, :))], [dlc_array(found)], status)
    call refused(3, 'not contiguous')
    call net%describe(dlc_input, 2, field, status)
    call refused(2, 'no such array')
    call dlc_open(net, trim(run), status)
    call refused(2, 'the model is open')
    call dlc_close(net)
    call dlc_close(net)
    call net%predict(x, found, status)
    call refused(2, 'closed')
    call net%get('a.weight', found, status)
    call refused(2, 'closed')
    call check(net%count(dlc_input) == 0 .and. .not. net%is_open(), 'closed')
  end subroutine predicts

  subroutine trains()
    type(dlc_model) :: net, saved
    real(real32), target :: u(16, 1, 4), v(16, 1, 4), t(16, 1, 4), a(16, 1, 4), z(4), b(16, 1, 4)
    real(real32) :: w(1, 4, 1)
    real(real64) :: first = 0, loss, means(1), none(0)
    integer :: i
    call dlc_open(net, trim(folder)//'/two.dl', status, batch=4, train=.true., &
                  settings=[character(len=16) :: 'lr=0.01', 'lr_schedule=none'])
    call check(status%code == 0, 'opens to train')
    u = reshape([(real(mod(i, 7)), i=1, 64)], shape(u))
    v = 0
    t = 0.5*u - 1
    do i = 1, 20
      call net%train_step([dlc_array(u), dlc_array(v)], [dlc_array(t)], loss, status)
      if (i == 1) first = loss
    end do
    call check(status%code == 0 .and. loss < first, 'losses fall')
    call net%evaluate([dlc_array(u), dlc_array(v)], [dlc_array(t)], loss, status, means)
    call check(status%code == 0 .and. loss < first .and. means(1) > 0, 'evaluate')
    call net%evaluate([dlc_array(u), dlc_array(v)], [dlc_array(t)], loss, status, none)
    call refused(2, 'metrics has 0 elements')
    call net%predict([dlc_array(u), dlc_array(v)], [dlc_array(a), dlc_array(z)], status)
    call net%get('b.weight', w, status)
    call check(status%code == 0 .and. any(w /= 0), 'get')
    call net%set('b.weight', 0*w, status)
    call net%predict([dlc_array(u), dlc_array(v)], [dlc_array(b), dlc_array(z)], status)
    call check(status%code == 0 .and. all(b == b(1, 1, 1)), 'set')
    call net%set('b.weight', w, status)
    call net%save(trim(folder)//'/saved_fortran', status)
    call check(status%code == 0, 'saves')
    call dlc_open(saved, trim(folder)//'/saved_fortran', status)
    call saved%predict([dlc_array(u), dlc_array(v)], [dlc_array(b), dlc_array(z)], status)
    call check(status%code == 0 .and. all(a == b), 'opens what it saved')
    call saved%save(trim(folder)//'/never', status)
    call refused(2, 'train = 1')
    call net%get('c.weight', w, status)
    call refused(2, "no parameter 'c.weight'")
    call net%get('a.weight', w, status)
    call refused(3, "'a.weight' is of the shape (3, 2, 4), and the array (1, 4, 1)")
    call dlc_close(net)
    call dlc_close(saved)
  end subroutine trains

  subroutine of_real64()
    type(dlc_model) :: net
    real(real64) :: f(3, 4), t(2, 4), g(2, 4), first = 0, loss
    integer(int32) :: labels(4)
    integer :: i
    call dlc_open(net, trim(folder)//'/double.dl', status, batch=4, train=.true., &
                  settings=[character(len=16) :: 'lr=0.1', 'lr_schedule=none'])
    f = reshape([(real(mod(i, 5), real64), i=1, 12)], shape(f))
    t = 1
    do i = 1, 20
      call net%train_step(f, t, loss, status)
      if (i == 1) first = loss
    end do
    call check(status%code == 0 .and. loss < first, 'real64: losses fall')
    call net%evaluate(f, t, first, status)
    call check(status%code == 0 .and. first < loss, 'real64: evaluate')
    call net%predict(f, g, status)
    call check(status%code == 0 .and. abs(sum((g - t)**2)/8 - first) < 1e-6*first, 'real64: predict')
    call net%train_step(f(:, :3), t(:, :3), loss, status)
    call refused(2, 'exactly 4')
    labels = 1
    call net%train_step([dlc_array(f)], [dlc_array(labels)], loss, status)
    call refused(3, "'t' is real64, and the array int32")
    call dlc_close(net)
  end subroutine of_real64

  ! An input that only the loss reads, here the first one, is dlc_none in a prediction.
  subroutine leaves_out()
    type(dlc_model) :: net
    real(real32), target :: u(2, 3), v(2, 3), b(2, 2)
    real(real64) :: loss
    call dlc_open(net, trim(folder)//'/weighted.dl', status, batch=2, train=.true.)
    u = reshape([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape(u))
    b = 1
    call net%predict([dlc_none, dlc_array(u)], [dlc_array(v)], status)
    call check(status%code == 0 .and. all(v == 2*u), 'dlc_none for an input of the loss')
    call net%predict([dlc_array(u), dlc_none], [dlc_array(v)], status)
    call refused(2, "the array of 'x' is NULL")
    call net%predict([dlc_none, dlc_array(u)], [dlc_none], status)
    call refused(3, "'y' is of the shape (2, samples), and the array ()")
    call net%train_step([dlc_none, dlc_array(b)], [dlc_array(b)], loss, status)
    call refused(2, "the array of 'w' is NULL")
    call net%train_step([dlc_array(b), dlc_array(b)], [dlc_array(b)], loss, status)
    call check(status%code == 0, 'a step with all arrays')
    call dlc_close(net)
  end subroutine leaves_out

  subroutine faulty()
    type(dlc_model) :: net
    integer :: unit
    call dlc_open(net, '/nonexistent', status)
    call refused(4, 'nonexistent')
    call dlc_open(net, trim(folder)//'/wrong.dl', status, plan=trim(folder)//'/nothing.dlp')
    call refused(4, 'nothing.dlp')
    open (newunit=unit, file=trim(folder)//'/wrong.dl', status='replace')
    write (unit, '(a)') 'model M():', '    input x: f32[N, F=2]', '    y = convy(x)'
    close (unit)
    text = ''
    call dlc_open(net, trim(folder)//'/wrong.dl', status, log=note)
    call check(status%code == 3 .and. index(text, "'convy'") > 0 .and. index(text, '^') > 0, 'log')
  end subroutine faulty
end program calls
